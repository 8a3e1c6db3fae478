"""Translation without a server: engines, batches, and the guard that checks answers."""
