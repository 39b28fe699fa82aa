// Kstatus compares what the library of that name makes of the golden states of a stack, in the folder of its argument, with
// what a tool that waits for the stack should read.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Each state in a stack's life. FailedStatus ends the wait of Flux at once, so it is only for states that need an edit of
// the spec.
var expected = map[string]status.Status{
	"created":        status.InProgressStatus,
	"starting":       status.InProgressStatus,
	"ready":          status.CurrentStatus,
	"rolling-out":    status.InProgressStatus,
	"edited":         status.InProgressStatus,
	"failing":        status.InProgressStatus,
	"stuck":          status.InProgressStatus,
	"secret-missing": status.InProgressStatus,
	"refused":        status.FailedStatus,
	"invalid":        status.FailedStatus,
	"paused":         status.CurrentStatus,
	"deleted":        status.TerminatingStatus,
}

// compute reads a golden file, whose header is between two lines of dashes.
func compute(file string) (*status.Result, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	parts := bytes.SplitN(text, []byte("---\n"), 3)
	content, err := yaml.YAMLToJSON(parts[len(parts)-1])
	if err != nil {
		return nil, fmt.Errorf("the object is no YAML: %w", err)
	}
	var object unstructured.Unstructured
	if err := object.UnmarshalJSON(content); err != nil {
		return nil, fmt.Errorf("it has no Kubernetes object: %w", err)
	}
	return status.Compute(&object)
}

func check(file, moment string) error {
	wanted, known := expected[moment]
	if !known {
		return fmt.Errorf("e2e/cluster/tools/kstatus/main.go expects nothing for this state")
	}
	result, err := compute(file)
	if err == nil && result.Status != wanted {
		err = fmt.Errorf("kstatus reads %s (%s), not %s: see operator/core/src/plan/status.rs", result.Status, result.Message, wanted)
	}
	return err
}

func main() {
	failed := false
	for moment := range expected {
		if _, err := os.Stat(filepath.Join(os.Args[1], "kstatus-"+moment+".snap")); err != nil {
			failed = true
			fmt.Fprintln(os.Stderr, "error:", err)
		}
	}
	files, _ := filepath.Glob(filepath.Join(os.Args[1], "kstatus-*.snap"))
	for _, file := range files {
		moment := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "kstatus-"), ".snap")
		if err := check(file, moment); err != nil {
			failed = true
			fmt.Fprintf(os.Stderr, "error: %s: %v\n", file, err)
		}
	}
	if failed {
		os.Exit(1)
	}
	fmt.Printf("kstatus reads %d states of a stack as expected\n", len(files))
}
