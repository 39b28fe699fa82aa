// The registry of the distribution project with storage in a folder, and no more: the clients of three clouds, which come
// with its own program, are half of what would be compiled.
package main

import (
	"os"

	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"

	"github.com/distribution/distribution/v3/registry"
)

func main() {
	if err := registry.RootCmd.Execute(); err != nil {
		os.Exit(1)
	}
}
