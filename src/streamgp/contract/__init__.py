"""What a stream model is: its methods, its inputs, its predictions, its snapshots."""
