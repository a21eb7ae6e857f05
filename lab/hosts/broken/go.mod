module broken

go 1.26.0
