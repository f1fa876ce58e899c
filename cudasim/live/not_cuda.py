def refusals(texts):
    return []
