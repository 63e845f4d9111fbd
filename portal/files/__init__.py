"""The pages of files: folders of the store, what is in a file, and putting, naming and deleting.

Large transfers do not pass through here: the script of the page uploads by the WebHDFS gateway, and downloads of files
are links to it, so the threads of pages stay free.
"""
