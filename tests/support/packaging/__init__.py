"""What is shipped: chart, images, pages, and the programs that render or check them."""
