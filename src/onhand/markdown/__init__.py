"""What is in this page? Its sections, its links and its front matter.

Import the module that answers your question: `sections`, `links` or `frontmatter`. They share `blocks`
(where the headings and the code of a page are) and `inline` (what a line says without its markup); nothing
here reads files.
"""
