"""What is told to those who watch: metrics, pages, and a Prometheus that scrapes them."""
