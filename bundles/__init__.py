"""What clients install onhand from: plugins, an extension, a bundle, an entry for the registry, and links."""
