module shortener.dev/tools/pause

go 1.26.0

tool shortener.dev/tools/pause
