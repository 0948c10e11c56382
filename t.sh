cd /tmp/wt/auto; export OMP_NUM_THREADS=1 PYTHONPATH=$PWD/src STREAMGP_DATA=/work/shared/data
/work/main/.venv/bin/python "$@"
