------------------------------ MODULE snapshot ------------------------------
(***************************************************************************)
(* One replicated word, as replicated-map.md describes it: SNAPSHOT, and   *)
(* what the master does when a client or a memory node has crashed.        *)
(*                                                                         *)
(* Each writer writes once, a value of its own: its number.  Each reader   *)
(* reads twice.  A batch of verbs takes effect in any order, each verb at  *)
(* its node in one step.  A completion may be lost with the node, and a    *)
(* verb may take effect after its client has given it up or has crashed,   *)
(* until its node has another key.                                         *)
(*                                                                         *)
(* crates/cenote-model has the same protocol over the shipped code.        *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets

CONSTANTS
    Writers,        \* numbers greater than 1; a writer's value is its number
    Readers,        \* other numbers
    Replicas,       \* how many nodes hold the word
    ClientCrashes,  \* how many clients may crash
    NodeCrashes     \* how many nodes may crash; the last one does not

Clients == Writers \cup Readers
Nodes   == 1..Replicas      \* the first one alive is the primary
First   == 1                \* what the word is at first

VARIABLES
    node,       \* node -> [alive, key, word, log]
    client,     \* client -> [stage, old, held, view, to, answers, reads]
    net,        \* verbs that are on their way
    view,       \* the newest view that clients know: [nodes, key, open]
    closing,    \* what the master is doing: [on, nodes, key, ended, given, equal]
    possible    \* the states in which a linearizable word can be by now

vars == <<node, client, net, view, closing, possible>>

-----------------------------------------------------------------------------
(* Views and logs *)

Least(S)    == CHOOSE n \in S : \A m \in S : n <= m
Primary(v)  == Least(v.nodes)
Backups(v)  == v.nodes \ {Primary(v)}
Nowhere     == [nodes |-> {}, key |-> 0, open |-> TRUE]

\* What the log of a write says.
Nothing  == 0
Decided  == 1
Undone   == 2
Won(old) == 100 + old       \* it has won, over this value

-----------------------------------------------------------------------------
(* What clients may be told.  `possible` has every state that the word can *)
(* be in: its value, the writes that have taken effect and go on, and what *)
(* each reader may have read.  It is empty once no order of the calls      *)
(* explains what clients were told.                                        *)

IsWriting(c) == c \in Writers /\ client[c].stage \notin {"idle", "done"}

Apply(p, c) ==
    [ value   |-> c,
      written |-> p.written \cup {c},
      seen    |-> [r \in Readers |->
                     IF p.seen[r] = {} THEN {} ELSE p.seen[r] \cup {c}] ]

RECURSIVE Reach(_, _)
Reach(P, W) ==
    LET N == UNION { { Apply(p, c) : c \in W \ p.written } : p \in P }
    IN  IF N \subseteq P THEN P ELSE Reach(P \cup N, W)

Reachable == Reach(possible, {c \in Clients : IsWriting(c)})

ToldWritten(c) ==
    possible' = { [p EXCEPT !.written = @ \ {c}] :
                    p \in {q \in Reachable : c \in q.written} }
AsksToRead(c) ==
    possible' = { [p EXCEPT !.seen[c] = {p.value}] : p \in possible }
ToldRead(c, value) ==
    possible' = { [p EXCEPT !.seen[c] = {}] :
                    p \in {q \in Reachable : value \in q.seen[c]} }
NeverToldRead(c) ==
    possible' = { [p EXCEPT !.seen[c] = {}] : p \in possible }

-----------------------------------------------------------------------------
(* The network *)

Takes(n, f) == n[f.node].alive /\ n[f.node].key = f.key

IsAwaited(cl, f) ==
    /\ cl[f.client].stage = f.stage
    /\ cl[f.client].view.key = f.key
    /\ f.node \in cl[f.client].to \ DOMAIN cl[f.client].answers

\* What may still matter: verbs that somebody waits for, and those that change something.
Keep(fs, n, cl) ==
    { f \in fs : n[f.node].alive /\ (IsAwaited(cl, f) \/ (Takes(n, f) /\ f.act \in {"swap", "log"})) }

Verb(c, stage, n, key, act, expected, new) ==
    [client |-> c, stage |-> stage, node |-> n, key |-> key,
     act |-> act, expected |-> expected, new |-> new]

\* Client c enters a stage and sends a batch: to each node of `to` one verb.
Post(c, stage, v, to, act, expected, new, old, held) ==
    /\ client' = [client EXCEPT ![c].stage = stage, ![c].view = v, ![c].to = to,
                    ![c].answers = [n \in {} |-> 0], ![c].old = old, ![c].held = held]
    /\ net' = net \cup { Verb(c, stage, n, v.key, act, expected[n], new) : n \in to }

Same(to, value) == [n \in to |-> value]
NoneHeld == [n \in {} |-> 0]

\* A verb takes effect, or its node refuses it.  A fruitless look of a loser is no step.
Effect(f) ==
    LET n == node[f.node]
        takes == Takes(node, f)
        was == CASE ~takes -> 0
                 [] takes /\ f.act \in {"read", "swap"} -> n.word
                 [] takes /\ f.act = "log" -> 0
                 [] takes /\ f.act = "ask" -> n.log[f.client]
    IN
    /\ n.alive
    /\ ~(takes /\ f.stage = "awaits" /\ n.word = client[f.client].old)
    /\ node' = CASE takes /\ f.act = "swap" /\ n.word = f.expected ->
                        [node EXCEPT ![f.node].word = f.new]
                 [] takes /\ f.act = "log" ->
                        [node EXCEPT ![f.node].log[f.client] = Won(f.new)]
                 [] OTHER -> node
    /\ client' = IF IsAwaited(client, f)
                 THEN [client EXCEPT ![f.client].answers =
                         [m \in DOMAIN @ \cup {f.node} |->
                            IF m = f.node THEN [done |-> takes, was |-> was] ELSE @[m]]]
                 ELSE client
    /\ net' = net \ {f}
    /\ UNCHANGED <<view, closing, possible>>

-----------------------------------------------------------------------------
(* Clients *)

\* Client c waits for a later view; after it has begun its round, for another key.
Wait(c, stage) ==
    /\ client' = [client EXCEPT ![c].stage = stage, ![c].to = {}, ![c].old = 0,
                    ![c].answers = [n \in {} |-> 0], ![c].held = NoneHeld]
    /\ net' = Keep(net, node, client')
    /\ UNCHANGED <<node, view, closing, possible>>

\* The log of c's write says nothing yet, or nothing any more.
Blank(c) == node' = [n \in Nodes |-> [node[n] EXCEPT !.log[c] = Nothing]]

Look(c) ==
    IF view.open
    THEN /\ Blank(c)
         /\ Post(c, "looks", view, {Primary(view)}, "read", Same({Primary(view)}, 0), 0, 0, NoneHeld)
    ELSE /\ client' = [client EXCEPT ![c].stage = "waits for a view", ![c].view = view,
                         ![c].to = {}, ![c].answers = [n \in {} |-> 0]]
         /\ UNCHANGED <<node, net>>

Read(c) ==
    /\ Post(c, "reads", view, {Primary(view)}, "read", Same({Primary(view)}, 0), 0, 0, NoneHeld)
    /\ UNCHANGED node

Begin(c) ==
    /\ client[c].stage = "idle"
    /\ IF c \in Writers
       THEN Look(c) /\ UNCHANGED possible
       ELSE Read(c) /\ AsksToRead(c)
    /\ UNCHANGED <<view, closing>>

Finish(c, stage, reads) ==
    /\ client' = [client EXCEPT ![c] =
                    [stage |-> stage, old |-> 0, held |-> NoneHeld, view |-> Nowhere,
                     to |-> {}, answers |-> [n \in {} |-> 0], reads |-> reads]]
    /\ Blank(c)
    /\ UNCHANGED net

EndWrite(c) == Finish(c, "done", 0) /\ ToldWritten(c)

\* The parts of a write, in this order.
Swap(c, old) ==
    LET v == client[c].view IN
    Post(c, "swaps", v, Backups(v), "swap", Same(Backups(v), old), c, old, NoneHeld)
Check(c, held) ==
    LET v == client[c].view IN
    Post(c, "checks", v, {Primary(v)}, "read", Same({Primary(v)}, 0), 0, client[c].old, held)
Equalise(c, held) ==
    LET v == client[c].view
        others == {n \in Backups(v) : held[n] # c}
    IN Post(c, "equalises", v, others, "swap", held, c, client[c].old, NoneHeld)
Log(c, old) ==
    LET v == client[c].view IN
    Post(c, "logs", v, v.nodes, "log", Same(v.nodes, 0), old, old, NoneHeld)
End(c) ==
    LET v == client[c].view IN
    Post(c, "ends", v, {Primary(v)}, "swap", Same({Primary(v)}, client[c].old), c, client[c].old, NoneHeld)
Await(c) ==
    LET v == client[c].view IN
    Post(c, "awaits", v, {Primary(v)}, "read", Same({Primary(v)}, 0), 0, client[c].old, NoneHeld)

Count(held, value) == Cardinality({n \in DOMAIN held : held[n] = value})
All(held, c)       == Count(held, c) = Cardinality(DOMAIN held)
Most(held, value)  == 2 * Count(held, value) > Cardinality(DOMAIN held)
Smallest(held, c)  == /\ \A n \in DOMAIN held : ~Most(held, held[n])
                      /\ \E n \in DOMAIN held : held[n] = c
                      /\ \A n \in DOMAIN held : c <= held[n]

\* Client c judges by what the backups hold.
Judge(c, held) ==
    CASE All(held, c)       -> Log(c, client[c].old)        \* rule 1
      [] ~All(held, c) /\ Most(held, c) -> Equalise(c, held) \* rule 2
      [] Smallest(held, c)  -> Check(c, held)               \* rule 3
      [] OTHER              -> Await(c)

IsAnswered(c) ==
    client[c].to # {} /\ DOMAIN client[c].answers = client[c].to

\* All completions of c's batch are there.
Complete(c) ==
    LET me == client[c]
        was == [n \in me.to |-> me.answers[n].was]
        only == CHOOSE n \in me.to : TRUE
    IN
    /\ IsAnswered(c)
    /\ IF \E n \in me.to : ~me.answers[n].done
       THEN Wait(c, IF me.stage \in {"reads", "looks"} THEN "waits for a view" ELSE "waits for a key")
       ELSE
       /\ UNCHANGED <<view, closing>>
       /\ CASE me.stage = "reads" ->
                 /\ Finish(c, IF me.reads = 1 THEN "done" ELSE "idle", me.reads - 1)
                 /\ ToldRead(c, was[only])
            [] me.stage = "looks" ->
                 /\ IF Backups(me.view) = {} THEN Log(c, was[only]) ELSE Swap(c, was[only])
                 /\ UNCHANGED <<node, possible>>
            [] me.stage = "swaps" ->
                 /\ Judge(c, [n \in me.to |-> IF was[n] = me.old THEN c ELSE was[n]])
                 /\ UNCHANGED <<node, possible>>
            [] me.stage = "checks" ->
                 /\ IF was[only] = me.old THEN Equalise(c, me.held) ELSE Await(c)
                 /\ UNCHANGED <<node, possible>>
            [] me.stage = "equalises" -> Log(c, me.old) /\ UNCHANGED <<node, possible>>
            [] me.stage = "logs"      -> End(c) /\ UNCHANGED <<node, possible>>
            [] me.stage = "ends" ->
                 IF was[only] \in {me.old, c} THEN EndWrite(c)
                 ELSE Await(c) /\ UNCHANGED <<node, possible>>
            [] me.stage = "awaits" -> EndWrite(c)
            [] me.stage = "asks" ->
                 IF was[only] = Decided THEN EndWrite(c) ELSE Look(c) /\ UNCHANGED possible

\* The deadline of a batch ends: one of its nodes is dead.
GiveUp(c) ==
    /\ \E n \in client[c].to : ~node[n].alive
    /\ Wait(c, IF client[c].stage \in {"reads", "looks"} THEN "waits for a view" ELSE "waits for a key")

Resume(c) ==
    LET me == client[c] IN
    /\ \/ /\ me.stage = "waits for a key" /\ view.open /\ view.key > me.view.key
          /\ Post(c, "asks", view, {Primary(view)}, "ask", Same({Primary(view)}, 0), 0, 0, NoneHeld)
          /\ UNCHANGED node
       \/ /\ me.stage = "waits for a view" /\ view # me.view /\ c \in Readers
          /\ Read(c)
       \/ /\ me.stage = "waits for a view" /\ view # me.view /\ c \in Writers /\ view.open
          /\ Look(c)
    /\ UNCHANGED <<view, closing, possible>>

-----------------------------------------------------------------------------
(* Crashes *)

HasCrashed(c) == client[c].stage \in {"crashed", "ended"}

CrashClient(c) ==
    /\ client[c].stage \notin {"idle", "done", "crashed", "ended"}
    /\ Cardinality({d \in Clients : HasCrashed(d)}) < ClientCrashes
    /\ client' = [client EXCEPT ![c] =
                    [stage |-> "crashed", old |-> 0, held |-> NoneHeld, view |-> Nowhere,
                     to |-> {}, answers |-> [n \in {} |-> 0], reads |-> 0]]
    /\ net' = Keep(net, node, client')
    /\ IF c \in Readers THEN NeverToldRead(c) ELSE UNCHANGED possible
    /\ UNCHANGED <<node, view, closing>>

Alive == {n \in Nodes : node[n].alive}

CrashNode(n) ==
    /\ n \in Alive /\ Cardinality(Alive) > 1
    /\ Cardinality(Nodes \ Alive) < NodeCrashes
    /\ node' = [node EXCEPT ![n] =
                  [alive |-> FALSE, key |-> 0, word |-> 0, log |-> [c \in Clients |-> Nothing]]]
    /\ net' = Keep(net, node', client)
    /\ UNCHANGED <<client, view, closing, possible>>

-----------------------------------------------------------------------------
(* The master *)

NeedsClosing ==
    \/ ~view.open
    \/ view.nodes \ Alive # {}
    \/ \E c \in Clients : client[c].stage = "crashed"
    \/ \E c \in Clients : /\ client[c].stage \in {"waits for a view", "waits for a key"}
                          /\ client[c].view = view

\* It decides on a new key, for the nodes that are left.  If one of these crashes, it begins again.
Close ==
    /\ \/ ~closing.on /\ NeedsClosing
       \/ closing.on /\ closing.nodes \ Alive # {}
    /\ closing' = [on |-> TRUE, nodes |-> view.nodes \cap Alive,
                   key |-> (IF closing.on THEN closing.key ELSE view.key) + 1,
                   ended |-> {c \in Clients : HasCrashed(c)}, given |-> {}, equal |-> {}]
    /\ UNCHANGED <<node, client, net, view, possible>>

\* It gives the key to a node.  Once all have it, clients are told, if the primary is left: until the region
\* is open again they read.  If the primary is lost, they are told when the region is open.
Give(n) ==
    LET given == closing.given \cup {n} IN
    /\ closing.on /\ n \in (closing.nodes \cap Alive) \ closing.given
    /\ node' = [node EXCEPT ![n].key = closing.key]
    /\ net' = Keep(net, node', client)
    /\ closing' = [closing EXCEPT !.given = given,
                     !.equal = IF given = closing.nodes THEN {Least(closing.nodes)} ELSE {}]
    /\ view' = IF given = closing.nodes /\ Primary(closing) = Primary(view)
               THEN [nodes |-> closing.nodes, key |-> closing.key, open |-> FALSE]
               ELSE view
    /\ UNCHANGED <<client, possible>>

\* It makes a copy equal to that of the first node.
Copy(n) ==
    /\ closing.on /\ closing.given = closing.nodes /\ Primary(closing) \in Alive
    /\ n \in (closing.nodes \cap Alive) \ closing.equal
    /\ node' = [node EXCEPT ![n].word = node[Primary(closing)].word]
    /\ closing' = [closing EXCEPT !.equal = @ \cup {n}]
    /\ UNCHANGED <<client, net, view, possible>>

\* What it writes to the log of c's write: the word has its value; or it has won, and what it came in the
\* place of is gone.
Outcome(c) ==
    LET first == node[Primary(closing)]
        said  == first.log[c]
    IN  IF said = Decided \/ first.word = c \/ (said >= 100 /\ said # Won(first.word))
        THEN Decided ELSE Undone

Open ==
    /\ closing.on /\ closing.equal = closing.nodes /\ closing.nodes \subseteq Alive
    /\ node' = [n \in Nodes |->
                  IF n \notin closing.nodes THEN node[n]
                  ELSE [node[n] EXCEPT !.log =
                          [c \in Clients |->
                             IF IsWriting(c) /\ ~HasCrashed(c) THEN Outcome(c) ELSE Nothing]]]
    /\ client' = [c \in Clients |-> IF c \in closing.ended
                                    THEN [client[c] EXCEPT !.stage = "ended"] ELSE client[c]]
    /\ view' = [nodes |-> closing.nodes, key |-> closing.key, open |-> TRUE]
    /\ closing' = [on |-> FALSE, nodes |-> {}, key |-> 0, ended |-> {}, given |-> {}, equal |-> {}]
    /\ UNCHANGED <<net, possible>>

-----------------------------------------------------------------------------

HasFinished ==
    /\ \A c \in Clients : client[c].stage \in {"done", "ended"}
    /\ ~closing.on /\ ~NeedsClosing

Init ==
    /\ node = [n \in Nodes |-> [alive |-> TRUE, key |-> 1, word |-> First,
                                log |-> [c \in Clients |-> Nothing]]]
    /\ client = [c \in Clients |-> [stage |-> "idle", old |-> 0, held |-> NoneHeld, view |-> Nowhere,
                    to |-> {}, answers |-> [n \in {} |-> 0], reads |-> IF c \in Readers THEN 2 ELSE 0]]
    /\ net = {}
    /\ view = [nodes |-> Nodes, key |-> 1, open |-> TRUE]
    /\ closing = [on |-> FALSE, nodes |-> {}, key |-> 0, ended |-> {}, given |-> {}, equal |-> {}]
    /\ possible = {[value |-> First, written |-> {}, seen |-> [r \in Readers |-> {}]]}

Next ==
    \/ \E c \in Clients : Begin(c) \/ Complete(c) \/ GiveUp(c) \/ Resume(c) \/ CrashClient(c)
    \/ \E f \in net : Effect(f)
    \/ \E n \in Nodes : CrashNode(n) \/ Give(n) \/ Copy(n)
    \/ Close \/ Open
    \/ HasFinished /\ UNCHANGED vars    \* so that every other end is a deadlock

Spec == Init /\ [][Next]_vars /\ WF_vars(Next)

-----------------------------------------------------------------------------
(* What holds *)

Linearizable == possible # {}

EqualAtTheEnd == HasFinished => \A n \in view.nodes : node[n].word = node[Primary(view)].word

\* While nobody closes the region, the backups hold what the primary holds, or what it may become.
NeverBehind ==
    ~closing.on /\ view.open /\ view.nodes \subseteq Alive =>
        \A n \in Backups(view) :
            \/ node[n].word = node[Primary(view)].word
            \/ IsWriting(node[n].word)

\* All ends: no client waits for ever.
Ends == <>HasFinished
=============================================================================
