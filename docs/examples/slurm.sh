#!/bin/bash
# Two machines, four processes each:  sbatch slurm.sh
# Two minutes before the time is over Slurm tells this script; the run writes a checkpoint, and the job goes back to the
# queue. A run that fails by itself does not.
#SBATCH --job-name=novel
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --time=08:00:00
#SBATCH --signal=B:TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=novel.log
set -euo pipefail

RUN=runs/novel
if [ -f "$RUN/recipe.toml" ]; then
    what=(--resume "$RUN")
else
    what=(lm novel.txt --out "$RUN" --processes 8)
fi

# --kill-on-bad-exit: where one machine's processes fail, the others end too.
srun --kill-on-bad-exit=1 torchrun \
    --nnodes "$SLURM_NNODES" \
    --nproc-per-node 4 \
    --rdzv-id "$SLURM_JOB_ID" \
    --rdzv-backend c10d \
    --rdzv-endpoint "$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1):29500" \
    -m unrolled train "${what[@]}" --log-json &
training=$!

stopped=0
trap 'stopped=1; kill -TERM "$training"' TERM
code=0
wait "$training" || code=$?
if [ "$stopped" -eq 1 ]; then
    wait "$training" || true  # the first wait ended with the signal, this one with the checkpoint
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
