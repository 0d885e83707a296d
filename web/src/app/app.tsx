/** Routes of the page, inside the shell. Pages other than the playground load lazily. */
import { lazy, Suspense, type ReactNode } from 'react';
import { Redirect, Route, Router, Switch } from 'wouter';
import { EmptyState, Loading } from '@/components/status';
import { Toaster } from '@/components/toast';
import { SERVER_ROOT } from '@/lib/server-path';
import { PlaygroundPage } from '@/pages/playground/page';
import { Shell } from './shell';
import { confirmNavigation } from './unsaved-changes';

const WorkflowsPage = lazy(() => import('@/pages/workflows/page'));
const TracesPage = lazy(() => import('@/pages/traces/list'));
const TracePage = lazy(() => import('@/pages/traces/detail/page'));
const SessionsPage = lazy(() => import('@/pages/sessions/page'));
const TestSetsPage = lazy(() => import('@/pages/testsets/list'));
const TestSetPage = lazy(() => import('@/pages/testsets/detail'));
const EvaluationsPage = lazy(() => import('@/pages/evaluations/list'));
const EvaluationPage = lazy(() => import('@/pages/evaluations/detail'));
const ComparePage = lazy(() => import('@/pages/evaluations/compare/page'));
const ReviewsPage = lazy(() => import('@/pages/reviews/list'));
const ReviewPage = lazy(() => import('@/pages/reviews/detail'));
const OnlinePage = lazy(() => import('@/pages/live/page'));
const SettingsPage = lazy(() => import('@/pages/settings/page'));
const LoginPage = lazy(() => import('@/pages/login/page'));

export function App(): ReactNode {
  return (
    <Router base={SERVER_ROOT} aroundNav={confirmNavigation}>
      <Suspense fallback={<Loading className="p-8" />}>
        <Switch>
          <Route path="/login" component={LoginPage} />
          <Route>
            <Shell>
              <Switch>
                <Route path="/">
                  <Redirect to="/play" replace />
                </Route>
                <Route path="/play/:id?">{({ id }) => <PlaygroundPage id={id} />}</Route>
                <Route path="/workflows/:name?">{({ name }) => <WorkflowsPage name={name} />}</Route>
                <Route path="/traces" component={TracesPage} />
                <Route path="/traces/:trace">{({ trace }) => <TracePage key={trace} trace={trace} />}</Route>
                <Route path="/sessions/:session?">
                  {({ session }) => <SessionsPage {...(session === undefined ? {} : { session })} />}
                </Route>
                <Route path="/testsets" component={TestSetsPage} />
                <Route path="/testsets/:id">{({ id }) => <TestSetPage key={id} id={id} />}</Route>
                <Route path="/evaluations" component={EvaluationsPage} />
                <Route path="/evaluations/online" component={OnlinePage} />
                <Route path="/evaluations/compare" component={ComparePage} />
                <Route path="/evaluations/:id">{({ id }) => <EvaluationPage key={id} id={id} />}</Route>
                <Route path="/reviews" component={ReviewsPage} />
                <Route path="/reviews/:id">{({ id }) => <ReviewPage key={id} id={id} />}</Route>
                <Route path="/settings" component={SettingsPage} />
                <Route>
                  <EmptyState title="Page not found">Check the address, or choose a page in the sidebar.</EmptyState>
                </Route>
              </Switch>
            </Shell>
          </Route>
        </Switch>
      </Suspense>
      <Toaster />
    </Router>
  );
}
