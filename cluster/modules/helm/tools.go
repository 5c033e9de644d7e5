//go:build tools

// Package tools pins the programs that the local cluster runs.
package tools

import (
	_ "helm.sh/helm/v3/cmd/helm"
)
