module load_generator

go 1.26.0
