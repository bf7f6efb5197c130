"""What happens without a head: exact ablation, gradients, patching, direct effects, resilience."""
