"""`python -m documentation.pictures`: draw all pictures into docs/pictures."""

from documentation.pictures.gallery import FOLDER, write

if __name__ == "__main__":
    write(FOLDER)
