"""What shows the metrics to people: their table, dashboards for Grafana, alert rules for Prometheus."""
