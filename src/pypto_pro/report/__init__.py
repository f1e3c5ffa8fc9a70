"""Reports for people and tools: Markdown, JSON, terminal text and SVG. No analysis happens here."""
