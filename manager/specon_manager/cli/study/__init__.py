"""Studies without a manager: of logs, policies, journals."""
