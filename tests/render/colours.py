"""Colours as eyes see them: OKLab, and what is left of a colour without one kind of cone."""

import numpy as np

# Machado, Oliveira and Fernandes 2009, "A physiologically-based model for simulation of color vision deficiency", severity 1.0, on linear RGB.
VISIONS = {
    "all cones": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    "tritanopia": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
}
# Ottosson 2020, "A perceptual color space for image processing".
CONES = np.array([[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566], [0.0883024619, 0.2817188376, 0.6299787005]])
LAB = np.array([[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099], [0.0259040371, 0.7827717662, -0.8086757660]])


def linear(channels: np.ndarray) -> np.ndarray:
    """sRGB channels of 0 to 255 as light."""
    share = np.asarray(channels, float) / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def oklab(light: np.ndarray) -> np.ndarray:
    """Lightness, green to red, blue to yellow, of light [n, 3]."""
    return np.cbrt(light @ CONES.T) @ LAB.T


def seen(channels: np.ndarray, vision: str) -> np.ndarray:
    """OKLab of colours [n, 3] of 0 to 255, as they look to this vision."""
    return oklab(np.clip(linear(channels) @ VISIONS[vision].T, 0, 1))
