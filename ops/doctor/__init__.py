"""`doctor`: is the store fit, and has every live job a way forward?"""
