"""The commands: their arguments and their help.

learning   demo, data, train, evaluate, compare, bench, inspect, doctor
using      predict, generate, translate, forecast, stream
shipping   export, convert
"""
