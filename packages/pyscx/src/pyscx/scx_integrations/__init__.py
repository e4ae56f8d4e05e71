"""What connects .scx files with other tools; each module needs the tool that it is named after."""
