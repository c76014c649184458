"""What processes of the trainer are asked and answer, and how they are started; without torch."""
