"""Read Markdown: sections (`page`), links (`links`) and front matter (`frontmatter`). Nothing here opens files."""
