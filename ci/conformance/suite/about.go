package main

// about is the part of the table that explains it.
const about = `Specs run on two nodes, against ` + "`writ up`" + ` as it comes and a machine that has joined. Images are not pulled: agnhost (its binary alone), the sample API
server and etcd were built here from their sources, busybox is Debian's, nautilus is upstream's files served by agnhost, and agnhost stands in for pause.
`

// notAsked is why a spec has not run.
const notAsked = "not asked for yet"
