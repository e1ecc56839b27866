// Package aggregate serves the groups and versions that other API servers have,
// as APIServices say (apiregistration.k8s.io/v1).
//
// It watches APIServices and the Services and EndpointSlices behind them, and
// the catalog. It owns the Available condition of every APIService and the
// objects v1.apps and its like, which stand for what is served here. It
// promises that the other server learns who asks from request headers under
// the front proxy's certificate and never sees the client's credentials, that
// one that hangs or lies disturbs nobody else, and that discovery shows its
// resources within a second of its becoming available.
package aggregate
