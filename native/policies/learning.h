// Every policy that learns the law of X.
#pragma once
#include "graves_lai.h"
#include "joint_ucb.h"
#include "latent_ts.h"
