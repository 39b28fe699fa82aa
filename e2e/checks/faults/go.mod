module shortener.dev/e2e/faults

go 1.26.0
