//go:build tools

// Package tools pins the programs that the tests run.
package tools

import (
	_ "github.com/prometheus/prometheus/cmd/promtool"
)
