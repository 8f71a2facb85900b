"""The places where replicas run; the backends do not know each other."""
