"""The store on HDFS, by WebHDFS: ``store`` is the Store, ``client`` speaks with the NameNode, ``datanode`` with those
who have the bytes; ``reading`` and ``writing`` are files that are open."""
