//go:build tools

// Package tools names the programs that are built from this module.
package tools

import (
	_ "github.com/cri-o/cri-o/cmd/crio"
	_ "github.com/cri-o/cri-o/test/copyimg"
)
