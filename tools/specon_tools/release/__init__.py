"""What a release is made of: images and the chart that names them. Needs Python alone, no environment."""
