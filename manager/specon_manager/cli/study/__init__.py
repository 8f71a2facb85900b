"""What is studied without a manager: logs, policies, journals."""
