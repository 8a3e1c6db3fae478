"""Files of any number and size, translated or captioned by the map's models on Ray."""
