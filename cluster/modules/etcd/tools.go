//go:build tools

// Package tools pins the programs that the local cluster runs.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
)
