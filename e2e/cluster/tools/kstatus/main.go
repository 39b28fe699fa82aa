// Kstatus prints what the library of that name makes of an object, given as YAML or JSON on its standard input: the status,
// a tab and the library's message.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func compute(input io.Reader) (*status.Result, error) {
	text, err := io.ReadAll(input)
	if err != nil {
		return nil, fmt.Errorf("read the object: %w", err)
	}
	content, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, fmt.Errorf("the object is no YAML: %w", err)
	}
	var object unstructured.Unstructured
	if err := object.UnmarshalJSON(content); err != nil {
		return nil, fmt.Errorf("what was given is no Kubernetes object: %w", err)
	}
	return status.Compute(&object)
}

func main() {
	result, err := compute(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kstatus:", err)
		os.Exit(1)
	}
	fmt.Printf("%s\t%s\n", result.Status, result.Message)
}
