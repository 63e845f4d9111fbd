"""The store in a bucket of an S3-compatible server: ``store`` is the Store, ``client`` speaks with the server, ``tree``
makes a tree of folders of the bucket's keys; ``writing`` is a file that is being written."""
