"""One fresh client: ask a server what the contract says until steady, or search for its saturation.

Started by the order of a served run as `python -m lynxbench.run.client FOLDER`. Like a worker it talks through files in
that folder alone, and leaves when whoever started it is gone:

    client.json     what to do                       record.npz        every request, as numpy columns
    stage           where it is, for progress        finished          how many requests have ended, for progress
    saturation.json the search, where there was one  ceiling.npz       the closed loop that bounds it from above
    report.json     how it ended, written once
"""
