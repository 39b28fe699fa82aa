// Evaluates the CEL expression in the first argument over the cases on standard input, as Flux does for a health check: the
// fields of the resource are the variables, and an expression that fails is not true. Prints `true` or `false` for each case.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/google/cel-go/cel"
)

func main() {
	log.SetFlags(0)
	var cases []struct{ Resource map[string]any }
	if err := json.NewDecoder(os.Stdin).Decode(&cases); err != nil {
		log.Fatal("the cases are no JSON: ", err)
	}
	program, err := parse(os.Args[1])
	if err != nil {
		log.Fatal("the expression is not valid: ", err)
	}
	for _, example := range cases {
		result, _, err := program.Eval(example.Resource)
		fmt.Println(err == nil && result.Value() == true)
	}
}

// Flux knows no types either: a resource that has no status yet must not be an error of the expression.
func parse(expression string) (cel.Program, error) {
	env, err := cel.NewEnv()
	if err != nil {
		return nil, err
	}
	tree, issues := env.Parse(expression)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	return env.Program(tree)
}
