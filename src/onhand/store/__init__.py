"""Where does it live? Documents, the words and the vectors by which they are found."""
