// Command broken stands for a writ that ends as soon as it is started.
package main

import "os"

func main() { os.Exit(1) }
