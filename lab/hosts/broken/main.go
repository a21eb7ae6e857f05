// Copyright: onprem.kube_scheduling contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Broken tells its version as node_exporter does, and ends with an error when it is to serve.
package main

import (
	"fmt"
	"os"
	"slices"
)

var version = "0.0.0"

func main() {
	if slices.Contains(os.Args, "--version") {
		fmt.Printf("node_exporter, version %s (branch: , revision: unknown)\n", version)
		return
	}
	fmt.Fprintln(os.Stderr, "this version is broken")
	os.Exit(1)
}
