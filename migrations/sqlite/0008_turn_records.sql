-- What happened in a turn, with times, as JSON: written down with its end, for whoever reads it afterwards.
ALTER TABLE turns ADD COLUMN record TEXT;

-- Each turn moved through these; what they answered, the others answer as well: running and parked turns stand in
-- turns_one_at_a_time, a session's places are in the order of its seqs, and ids begin with the time.
DROP INDEX turns_running;
DROP INDEX turns_parked;
DROP INDEX turns_told;
DROP INDEX turns_ended;
