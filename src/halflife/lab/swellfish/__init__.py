"""What secrets cost in noise, and pictures of them."""
