"""The store on HDFS, by WebHDFS: ``store`` is the Store, ``client`` speaks with the NameNode, and with
the DataNodes that have the bytes."""
