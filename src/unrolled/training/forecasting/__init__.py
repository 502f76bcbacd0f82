"""What only forecasting needs of training: series to windows, losses, scores, baselines, and forecasts from a model.

parts      files of series to the three parts in time, and what is refused   losses     of one value
plan       what is measured before training, and the arrays of a series      metrics    MASE, sMAPE, CRPS, coverage
windows    windows that never cross a part or a series                       baselines  naive, seasonal naive, ETS
rolling    forecasts at many origins, and the state that carries on
"""
